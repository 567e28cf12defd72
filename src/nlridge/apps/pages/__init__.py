"""Pages of HTML that show results."""
