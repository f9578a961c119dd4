package sim

import "embed"

//go:embed prebuilt/amd64
var prebuilt embed.FS
