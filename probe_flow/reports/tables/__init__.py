"""Result tables, a folder for each family of layouts."""
