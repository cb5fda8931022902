"""python -m kernelgpa"""

from .cli import main

main()
