"""What runs wrote, and what can be asked about it: run folders (the truth), the database built from them, queries."""
