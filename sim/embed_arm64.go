package sim

import "embed"

//go:embed prebuilt/arm64
var prebuilt embed.FS
