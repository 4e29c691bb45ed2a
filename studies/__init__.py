"""The paper's claims as studies: what is to be run, how it is scheduled, and what follows from the numbers."""
