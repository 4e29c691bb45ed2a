"""Using finished runs: translating, parsing, looking at attention, comparing two outputs."""
