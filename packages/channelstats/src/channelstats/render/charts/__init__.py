"""Pictures of numbers as SVG, drawn by hand: they scale, print, take their colours from the page.

Rule: a picture is drawn twice, for a wide and for a narrow window, and the page shows one; its
numbers are beside it in a table. Nothing here depends on chance, so a page is the same each time.
"""
