"""What runs have in common and in what they differ: tables, figures and a page, read from run folders without JAX."""
