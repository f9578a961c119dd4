// CPython 3.12 for tests: only its files are used, so no package of ours imports it.
module python312

go 1.26.0

require github.com/kluctl/go-embed-python v0.0.0-3.12.3-20240415-1
