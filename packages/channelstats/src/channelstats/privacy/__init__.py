"""What hides people, in one step before the views: whatever is made of its results is pseudonymous.

pseudonyms  names and IDs in place of real ones
inputs      what reports and views are made of, under pseudonyms
"""
