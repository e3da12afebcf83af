"""The other side: objects, schemas and rights as ARC's charts and controllers have them.

Made from the words of the contract (C1 sections 1-3, C3 1.6 and 2.8), never from ARC's own files.
"""
