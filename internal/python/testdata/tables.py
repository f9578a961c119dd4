# SPDX-License-Identifier: Apache-2.0
"""Prints the line table of every function of some modules, and what Python reads in it:
one JSON list a function: table, first line, line by instruction."""

import argparse
import ast
import asyncio.events
import collections
import dataclasses
import inspect
import json
import pickle
import sys
import types
import typing

seen = set()


def show(code):
    if code in seen:
        return
    seen.add(code)
    lines = [0] * (len(code.co_code) // 2)
    for start, end, line in code.co_lines():
        for i in range(start // 2, end // 2):
            lines[i] = line or 0
    print(json.dumps([code.co_linetable.hex(), code.co_firstlineno, lines]))
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            show(c)


for module in argparse, ast, asyncio.events, collections, dataclasses, inspect, json, pickle, typing:
    with open(module.__file__, encoding="utf-8") as f:
        show(compile(f.read(), module.__file__, "exec"))
show(compile("\n" * 300 + "def f(a,\n\n b=1):\n" + "\n" * 500 + " return (a +\n" + "\n" * 700 + "b)\nx = [i for i in f(1)]\n" + "y = (" + "1," * 4000 + "x)\n",
             "<made>", "exec"))
