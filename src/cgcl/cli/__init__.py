"""The door: commands that convert, call one function of the library, and print.

No module here imports torch, numpy or pyarrow at its top: help and usage errors answer at once.
"""
