"""What is measured, one module each: which runs there are, and the tables that they make."""
