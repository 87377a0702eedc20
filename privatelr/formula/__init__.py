"""R's formula dialect: text becomes terms and expressions that work row by row."""
