"""Corpora, the shared vocabulary, and batches: everything between a file of text and a tensor of word pieces."""
