package script

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed texts/*.txt
var texts embed.FS

// prose returns a text of this package. An empty line at the end is kept, because more text follows;
// otherwise the final newline is removed.
func prose(name string) string {
	data, err := texts.ReadFile("texts/" + name + ".txt")
	if err != nil {
		panic(fmt.Sprintf("script: %v", err))
	}
	text := string(data)
	if strings.HasSuffix(text, "\n\n") {
		return text
	}
	return strings.TrimSuffix(text, "\n")
}

// chapters splits a long text; each chapter includes the empty line after it.
func chapters(text string) []string {
	var parts []string
	for {
		at := nextChapter(text)
		parts = append(parts, text[:at])
		if text = text[at:]; text == "" {
			return parts
		}
	}
}

// nextChapter returns the start of the second chapter, a line such as "7. The write-ahead".
func nextChapter(text string) int {
	for at := 1; at < len(text); at++ {
		line := text[at:]
		if text[at-1] != '\n' || line[0] < '1' || line[0] > '9' {
			continue
		}
		if digits := strings.IndexByte(line, '.'); digits == 1 || digits == 2 {
			return at
		}
	}
	return len(text)
}
