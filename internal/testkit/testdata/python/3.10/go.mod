// CPython 3.10 for tests: only its files are used, so no package of ours imports it.
module python310

go 1.26.0

require github.com/kluctl/go-embed-python v0.0.0-3.10.16-20241219-1
