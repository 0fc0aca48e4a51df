"""Results of runs, and the script that makes them."""
