package script

import (
	"embed"
	"fmt"
	"regexp"
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

// chapterStart matches the start of a chapter that is not the first one, a line such as "7. The write-ahead".
var chapterStart = regexp.MustCompile(`\n[1-9][0-9]?\.`)

// chapters splits a long text; each chapter includes the empty line after it.
func chapters(text string) (parts []string) {
	from := 0
	for _, at := range chapterStart.FindAllStringIndex(text, -1) {
		parts, from = append(parts, text[from:at[0]+1]), at[0]+1
	}
	return append(parts, text[from:])
}
