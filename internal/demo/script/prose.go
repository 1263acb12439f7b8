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

// chart is a small picture as a data URL.
const chart = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 320 140' font-family='sans-serif' font-size='11'%3E" +
	"%3Crect width='320' height='140' rx='8' fill='%23f4f7f9'/%3E" +
	"%3Cg fill='%232b7a9b'%3E%3Crect x='30' y='30' width='40' height='80'/%3E%3Crect x='85' y='62' width='40' height='48'/%3E" +
	"%3Crect x='140' y='86' width='40' height='24'/%3E%3Crect x='195' y='98' width='40' height='12'/%3E%3Crect x='250' y='104' width='40' height='6'/%3E%3C/g%3E" +
	"%3Cg fill='%23456' text-anchor='middle'%3E%3Ctext x='50' y='126'%3E1 s%3C/text%3E%3Ctext x='105' y='126'%3E10 s%3C/text%3E" +
	"%3Ctext x='160' y='126'%3E30 s%3C/text%3E%3Ctext x='215' y='126'%3E1 min%3C/text%3E%3Ctext x='270' y='126'%3E1 h%3C/text%3E" +
	"%3Ctext x='160' y='18' font-size='12'%3EHow long readers are away%3C/text%3E%3C/g%3E%3C/svg%3E"
