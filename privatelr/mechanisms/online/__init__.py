"""Online play: one private choice a round, from losses that arrive one vector at a time."""
