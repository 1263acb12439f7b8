//go:build e2e && record

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/gif"
	"image/png"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/tailrace/tailrace/internal/testkit/browsertest"
)

// TestRecordPicture writes the pictures of README: an answer streams into two tabs, one is reloaded, the process is killed and started again, and both tabs end with the
// same text. Everything in them happens at its speed.
//
//	make picture
func TestRecordPicture(t *testing.T) {
	for _, theme := range []string{"light", "dark"} {
		t.Run(theme, func(t *testing.T) {
			name := map[string]string{"light": "resume.gif", "dark": "resume-dark.gif"}[theme]
			encoded := film(t, theme)
			if err := os.WriteFile("../docs/images/"+name, encoded, 0o644); err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %d KB", name, len(encoded)>>10)
		})
	}
}

const (
	pictureWidth, pictureHeight = 880, 495
	stripHeight                 = 64
	paneScale                   = 0.6875 // of 640 x 627 pixels of a page
)

// film plays the scene and returns it as a GIF.
func film(t *testing.T, theme string) []byte {
	t.Helper()
	u := newUp(t, "--demo", "1.6")
	u.start(t)
	browser := browsertest.Start(t)
	strip := openTab(t, browser, "about:blank")
	run(t, strip, chromedp.EmulateViewport(pictureWidth, stripHeight))
	browsertest.Eval[bool](strip, t, `(() => {
		document.body.style.cssText = 'margin:0;background:#16202b;color:#e8edf2;font:19px DejaVu Sans Mono,monospace;line-height:64px;padding:0 18px;white-space:pre;overflow:hidden';
		return true;
	})()`)
	show := func(format string, args ...any) {
		t.Helper()
		browsertest.Eval[string](strip, t, fmt.Sprintf(`document.body.textContent = %q`, fmt.Sprintf(format, args...)))
	}
	pane := func(url string) context.Context {
		t.Helper()
		tab := openTab(t, browser, url)
		run(t, tab, chromedp.EmulateViewport(640, 627, chromedp.EmulateScale(paneScale)))
		browsertest.Await(tab, t, `document.querySelector('select') !== null`, `document.body.innerText`)
		browsertest.Eval[bool](tab, t, fmt.Sprintf(`(() => {
			const theme = [...document.querySelectorAll('select')].find((s) => s.value === 'system' || s.value === %[1]q);
			theme.value = %[1]q;
			return theme.dispatchEvent(new Event('change', { bubbles: true }));
		})()`, theme))
		return tab
	}
	const state = `location.href + JSON.stringify(document.body.dataset) + document.body.innerText`
	left := pane(u.url)
	c := &camera{strip: strip}
	show("$ tailrace up")
	c.background = map[string]color.Color{"light": color.Gray{0xe4}, "dark": color.Gray{0x1c}}[theme]
	c.point(left, nil)
	stop := c.record(t)

	const message = "How is the weather in Lisbon, Kyoto and Reykjavík?"
	for n := 6; n < len(message)+6; n += 6 {
		browsertest.Eval[bool](left, t, fmt.Sprintf(`(() => {
			const field = document.querySelector('textarea');
			field.value = %q;
			return field.dispatchEvent(new Event('input', { bubbles: true }));
		})()`, message[:min(n, len(message))]))
		c.await(1)
	}
	browsertest.Eval[bool](left, t, `document.querySelector('button[type=submit]').click() === undefined`)
	shows := func(tab context.Context, text string) {
		t.Helper()
		browsertest.Await(tab, t, fmt.Sprintf(`document.body.innerText.includes(%q)`, text), state)
	}
	shows(left, "the same time")
	show("the left tab is reloaded in mid-answer")
	c.await(2)
	run(t, left, chromedp.Reload())
	shows(left, "get_forecast")
	right := pane(run(t, left, chromedp.Evaluate[string](`location.href`)))
	show("a second tab opens")
	c.point(left, right)
	shows(right, "Lisbon is")
	show("$ kill -9 $(pgrep tailrace)")
	c.await(1)
	u.kill(t)
	browsertest.Await(right, t, `document.body.dataset.connection !== 'live'`, state)
	c.await(8)
	show("$ tailrace up")
	u.start(t)
	const ended = `document.body.dataset.connection === 'complete' && document.body.dataset.status === 'ended'`
	for _, tab := range []context.Context{left, right} {
		browsertest.Await(tab, t, ended, state)
	}
	const answer = `[...document.querySelectorAll('.chat .scroll')].map((e) => e.innerText).join()`
	a, b := browsertest.Eval[string](left, t, answer), browsertest.Eval[string](right, t, answer)
	if a != b || len(strings.Fields(a)) < 60 {
		t.Fatalf("the left tab shows\n%s\nand the right one\n%s", a, b)
	}
	show("left = right, %d words", len(strings.Fields(a)))
	c.await(16)
	stop()
	return c.encode(t)
}

// camera takes pictures of the tabs.
type camera struct {
	strip      context.Context
	background color.Color

	mu          sync.Mutex
	left, right context.Context
	frames      []*image.RGBA
	at          []time.Time
}

// point sets the tabs of the next frames; right may be nil.
func (c *camera) point(left, right context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left, c.right = left, right
}

func (c *camera) taken() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.frames)
}

// await waits until n more frames are taken.
func (c *camera) await(n int) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for until := c.taken() + n; c.taken() < until; {
		<-tick.C
	}
}

// record takes eight frames a second, until the function that it returns is called.
func (c *camera) record(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second / 8)
		defer tick.Stop()
		shot := map[context.Context]image.Image{}
		for {
			select {
			case <-ctx.Done():
				return
			case at := <-tick.C:
				c.mu.Lock()
				left, right := c.left, c.right
				c.mu.Unlock()
				frame := image.NewRGBA(image.Rect(0, 0, pictureWidth, pictureHeight))
				draw.Draw(frame, frame.Bounds(), image.NewUniform(c.background), image.Point{}, draw.Src)
				places := map[context.Context]image.Point{left: {}, c.strip: {Y: pictureHeight - stripHeight}}
				if right != nil {
					places[right] = image.Pt(pictureWidth/2+1, 0)
				}
				for tab, place := range places {
					if img, err := screenshot(ctx, tab); err == nil {
						shot[tab] = img
					} // else: the page is being loaded, and the picture has what it showed
					if img := shot[tab]; img != nil {
						draw.Draw(frame, img.Bounds().Add(place).Intersect(frame.Bounds()), img, image.Point{}, draw.Src)
					}
				}
				c.mu.Lock()
				c.frames, c.at = append(c.frames, frame), append(c.at, at)
				c.mu.Unlock()
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

func screenshot(ctx, tab context.Context) (image.Image, error) {
	bounded, cancel := context.WithTimeout(tab, time.Second)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	data, err := chromedp.Run(bounded, chromedp.CaptureScreenshot())
	if err != nil {
		return nil, err
	}
	return png.Decode(bytes.NewReader(data))
}

// encode writes the changed rectangles of the frames with one palette; equal frames are one with a longer delay.
func (c *camera) encode(t *testing.T) []byte {
	t.Helper()
	palette := newPalette(c.frames)
	out := &gif.GIF{Config: image.Config{ColorModel: palette.colors, Width: pictureWidth, Height: pictureHeight}}
	var before *image.RGBA
	for i, frame := range c.frames {
		delay := 200
		if i+1 < len(c.frames) {
			delay = int(c.at[i+1].Sub(c.at[i]).Milliseconds() / 10)
		}
		changed := changedPart(before, frame)
		if changed.Empty() {
			out.Delay[len(out.Delay)-1] += delay
			continue
		}
		img := image.NewPaletted(changed, palette.colors)
		for y := changed.Min.Y; y < changed.Max.Y; y++ {
			for x := changed.Min.X; x < changed.Max.X; x++ {
				img.SetColorIndex(x, y, palette.index(frame.RGBAAt(x, y)))
			}
		}
		out.Image, out.Delay, out.Disposal = append(out.Image, img), append(out.Delay, delay), append(out.Disposal, gif.DisposalNone)
		before = frame
	}
	var b bytes.Buffer
	if err := gif.EncodeAll(&b, out); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d frames, %d of them different", len(c.frames), len(out.Image))
	return b.Bytes()
}

// changedPart returns the rectangle in which two frames differ, the whole one without a first frame.
func changedPart(a, b *image.RGBA) (r image.Rectangle) {
	if a == nil {
		return b.Bounds()
	}
	for y := range pictureHeight {
		for x := range pictureWidth {
			if a.RGBAAt(x, y) != b.RGBAAt(x, y) {
				r = r.Union(image.Rect(x, y, x+1, y+1))
			}
		}
	}
	return r
}

// palette has the 256 most frequent colours; the others are the nearest of them.
type palette struct {
	colors color.Palette
	known  map[color.RGBA]uint8
}

func newPalette(frames []*image.RGBA) *palette {
	count := map[color.RGBA]int{}
	for _, frame := range frames {
		for i := 0; i < len(frame.Pix); i += 4 {
			count[coarse(color.RGBA{frame.Pix[i], frame.Pix[i+1], frame.Pix[i+2], 0xff})]++
		}
	}
	var all []color.RGBA
	for c := range count {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(int(a.R)<<16|int(a.G)<<8|int(a.B), int(b.R)<<16|int(b.G)<<8|int(b.B)))
	})
	p := &palette{known: map[color.RGBA]uint8{}}
	for _, c := range all[:min(256, len(all))] {
		p.colors = append(p.colors, c)
	}
	return p
}

// coarse makes the differences of smoothed letters fewer.
func coarse(c color.RGBA) color.RGBA { return color.RGBA{c.R | 3, c.G | 3, c.B | 3, 0xff} }

func (p *palette) index(c color.RGBA) uint8 {
	c = coarse(c)
	i, ok := p.known[c]
	if !ok {
		i = uint8(p.colors.Index(c))
		p.known[c] = i
	}
	return i
}
