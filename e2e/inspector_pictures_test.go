//go:build e2e

package e2e

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tailrace/tailrace/internal/testkit/browsertest"
)

var update = flag.Bool("update", false, "write the pictures of docs/guides/debug.md")

// largestPicture is the size of a picture in bytes that a reader of the document waits for.
const largestPicture = 120 << 10

// picture is a screen that docs/guides/debug.md shows.
type picture struct {
	name, path    string
	width, height int64
	theme         string
	until         string // the screen is complete
	act           string // what the user does then; may be empty
	shows         string // the main elements of the screen after it
}

// The pictures of docs/guides/debug.md are screens of sessions of the demo agent: each has its main elements, and its file has the size that is stated here. Their pixels
// are not compared, because fonts and times differ between machines: -update writes them.
func TestInspectorPictures(t *testing.T) {
	u := newUp(t, "--demo", "0.1")
	u.start(t)
	browser := browsertest.Start(t)
	tab := openTab(t, browser, u.url+"/inspect")
	const state = `location.href + JSON.stringify(document.body.dataset) + document.body.innerText`
	for _, written := range [][2]string{
		{"parcel-a", parcel(`"result":{"order":1042,"status":"lost","carrier":"north"}`, "I am sorry: your parcel was lost by the carrier.")},
		{"parcel-b", parcel(`"result":{"order":1042,"status":"delivered","carrier":"north"}`, "Your parcel was delivered by the carrier today.")},
	} {
		if res := u.tailrace(t, written[1], "publish", "--session", written[0]); res.code != 0 {
			t.Fatalf("publish: exit %d: %s", res.code, res.err)
		}
	}
	for _, said := range [][2]string{
		{"note", "Write me a note for the trip."}, {"log", "What is an event log?"}, {"readers", "How long do readers stay away?"}, {"break", "Take a break when you need one."},
		{"table", "Book a table for four on Thursday."}, {"weekend", "A long weekend in May: Porto or Valencia?"}, {"weather", "How is the weather in Lisbon, Kyoto and Reykjavík?"},
		{"evening", "Book a table for four on Thursday."}, {"evening", "Plan a hike for Sunday, without a car."}, {"drafts", "Delete my old drafts."},
	} {
		sendChat(t, u.url, said[0], said[1])
		open(t, tab, u.url+"/inspect/s/"+said[0]+"?tab=conversation")
		browsertest.Await(tab, t, fmt.Sprintf(`(document.body.dataset.connection === 'complete' || document.querySelector('.decide') !== null) && document.querySelector('.conversation').innerText.includes(%q)`, said[1]), state)
	}

	const table = `document.querySelector('.table .row:nth-child(6)') !== null`
	pictures := []picture{
		{"start", "/#s=table", 1200, 740, "light", `document.body.dataset.connection === 'complete' && document.querySelectorAll('.line').length > 8`, "",
			`document.querySelectorAll('.prompts button').length > 10 && document.querySelector('.composer .main') !== null && document.querySelectorAll('.chat .part.call').length === 3 && document.querySelector('.chat .failure') !== null`},
		{"sessions", "/inspect", 1200, 740, "light", table + ` && document.querySelector('.totals') !== null && document.querySelectorAll('.badge.warn').length === 1`, "",
			`document.querySelector('.group') !== null && document.querySelector('.filters') !== null && document.querySelector('.ask') !== null`},
		{"timeline", "/inspect/s/evening?tab=timeline", 1200, 900, "light", `document.body.dataset.connection === 'complete' && document.querySelectorAll('[data-kind="subagent"]').length > 1`,
			`document.querySelector('[data-kind="call"]:has(.badge.bad)').click()`,
			`document.querySelector('.detail .failure') !== null && document.querySelectorAll('[data-kind="subagent"]').length > 1 && document.querySelector('.line.selected .badge.bad') !== null && document.querySelector('.scrubber') !== null`},
		{"compare", "/inspect/compare?a=parcel-a&b=parcel-b", 1200, 420, "light", `document.querySelector('.options [role=status]')?.textContent.startsWith('Difference 1 of')`, "",
			`document.querySelectorAll('.side .badge').length === 2 && document.querySelector('.changes del') !== null && document.querySelector('.changes ins') !== null`},
		{"phone", "/inspect/s/drafts?tab=conversation", 390, 780, "dark", `document.querySelectorAll('.decide button').length === 2`, `document.querySelector('.decide button').scrollIntoView({ block: 'center' })`,
			`document.querySelector('.decide .json') !== null && document.querySelector('.part.user') !== null && document.documentElement.scrollWidth <= innerWidth`},
	}
	document, err := os.ReadFile(filepath.Join("..", "docs", "guides", "debug.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pictures {
		run(t, tab, chromedp.EmulateViewport(p.width, p.height))
		open(t, tab, "about:blank") // another fragment alone would not load the page
		open(t, tab, u.url+p.path)
		browsertest.Await(tab, t, p.until, state)
		browsertest.Eval[bool](tab, t, fmt.Sprintf(`(() => { document.documentElement.dataset.theme = %q; %s; return true; })()`, p.theme, p.act))
		browsertest.Await(tab, t, p.shows, state)
		file := filepath.Join("..", "docs", "images", "inspector-"+p.name+".png")
		if *update {
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o750), os.WriteFile(file, fewColours(t, run(t, tab, chromedp.CaptureScreenshot())), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatalf("%v: run with -update", err)
		}
		size, err := png.DecodeConfig(bytes.NewReader(data))
		if err != nil || int64(size.Width) != p.width || int64(size.Height) != p.height || len(data) > largestPicture {
			t.Errorf("%s has %d bytes and %d by %d pixels, want at most %d bytes and %d by %d: %v", file, len(data), size.Width, size.Height, largestPicture, p.width, p.height, err)
		}
		if !regexp.MustCompile(`!\[[^\]]{40,}\]\(\.\./images/inspector-` + p.name + `\.png\)`).Match(document) {
			t.Errorf("docs/guides/debug.md does not show %s with a text of at least 40 characters", file)
		}
	}
	files, err := filepath.Glob(filepath.Join("..", "docs", "images", "inspector-*"))
	if err != nil || len(files) != len(pictures) {
		t.Errorf("%d files, want %d: %v", len(files), len(pictures), err)
	}
}

// parcel returns the chunks of an agent that looks for a parcel.
func parcel(result, answer string) string {
	lines := ""
	for _, members := range []string{
		`"step":1,"type":"step_start"`, `"step":1,"type":"text_delta","delta":"Let me look for it."`,
		`"step":1,"type":"tool_start","toolCallId":"c1","toolName":"get_order","arguments":{"order":1042}`,
		`"step":1,"type":"tool_end","toolCallId":"c1","toolName":"get_order",` + result, `"step":1,"type":"step_end"`,
		`"step":2,"type":"step_start"`, fmt.Sprintf(`"step":2,"type":"text_delta","delta":%q`, answer), `"step":2,"type":"step_end"`,
	} {
		lines += `{"agentId":"a","agentType":"support","timestamp":1700000000000,` + members + "}\n"
	}
	return lines
}

// fewColours returns a screenshot with 256 colours, which has a third of the bytes: those that most pixels have, and that differ.
func fewColours(t *testing.T, screenshot []byte) []byte {
	t.Helper()
	all, err := png.Decode(bytes.NewReader(screenshot))
	if err != nil {
		t.Fatal(err)
	}
	bounds, pixels := all.Bounds(), map[color.Color]int{}
	for y := range bounds.Dy() {
		for x := range bounds.Dx() {
			pixels[all.At(x, y)]++
		}
	}
	var palette color.Palette
	for _, c := range slices.SortedFunc(maps.Keys(pixels), func(a, b color.Color) int { return pixels[b] - pixels[a] }) {
		if len(palette) < 256 && (len(palette) == 0 || difference(palette.Convert(c), c) > 8) {
			palette = append(palette, c)
		}
	}
	few, nearest := image.NewPaletted(bounds, palette), make(map[color.Color]uint8, len(pixels))
	for c := range pixels {
		nearest[c] = uint8(palette.Index(c))
	}
	for y := range bounds.Dy() {
		for x := range bounds.Dx() {
			few.SetColorIndex(x, y, nearest[all.At(x, y)])
		}
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, few); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// difference is the sum of the differences of red, green and blue, each from 0 to 255.
func difference(a, b color.Color) (sum int) {
	p, q := color.RGBAModel.Convert(a).(color.RGBA), color.RGBAModel.Convert(b).(color.RGBA)
	for _, of := range [][2]uint8{{p.R, q.R}, {p.G, q.G}, {p.B, q.B}} {
		sum += max(int(of[0]), int(of[1])) - min(int(of[0]), int(of[1]))
	}
	return sum
}
