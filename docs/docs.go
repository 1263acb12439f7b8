// Package docs has the documents for users, so that an edge serves those of its own version.
package docs

import "embed"

// Files are llms.txt and the pages, by path from this directory.
//
//go:embed llms.txt README.md adr/README.md frameworks guides protocol reference start why
var Files embed.FS
