"""The paper's model, its training, decoding and scoring. Knows no study, no database and no notebook."""
