"""Commands about dependency trees."""
