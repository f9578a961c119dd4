// CPython 3.14 for tests: only its files are used, so no package of ours imports it.
module python314

go 1.26.0

require github.com/kluctl/go-embed-python v0.0.0-3.14.6-20260610-1
