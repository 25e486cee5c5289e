"""Views and reports → something to read.

names        what people and channels are called
words        numbers, dates and times as words
figures      numbers as the pages write them
emoji_signs  signs of common emoji
charts       pictures as SVG
"""
