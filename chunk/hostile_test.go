package chunk_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
)

// Hostile texts are rejected without allocating what they describe. The test measures memory, which does not depend on the load of the machine and bounds the
// work together with one scan of the text.
func TestHostileTextsCostLittle(t *testing.T) {
	head := `{"type":"output",` + base + `,"output":`
	names := func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(`"` + strings.Repeat("n", 1+i%7) + string(rune('a'+i%26)) + `":0,`)
		}
		return b.String()
	}
	tests := []struct {
		name     string
		input    string
		maxBytes uint64 // bytes allocated
	}{
		{"J37 10,000 arrays", head + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + "}", 4 << 10},
		{"J38 300,000 unclosed arrays", strings.Repeat("[", 300_000), 4 << 10},
		{"300,000 unclosed arrays in a chunk", head + strings.Repeat("[", 300_000), 4 << 10},
		{"J39 50,000 objects deep", head + strings.Repeat(`{"a":`, 50_000) + "0" + strings.Repeat("}", 50_000) + "}", 4 << 10},
		{"J40 100,000 members", "{" + names(100_000) + `"z":0}`, 8 << 20},
		{"100,000 members in a value", head + "{" + names(100_000) + `"z":0}}`, 4 << 10},
		{"J41 500 kB name", `{"` + strings.Repeat("n", 500_000) + `":0}`, 1 << 20},
		{"500 kB name of escapes", `{"` + strings.Repeat(`\u0000`, 83_000) + `":0}`, 1 << 20},
		{"J31 200 kB integer", `{"type":"step_start","agentId":"a","agentType":"t","timestamp":` + strings.Repeat("9", 200_000) + `}`, 4 << 10},
		{"200 kB number of tokens", `{"type":"step_end",` + base + `,"usage":{"inputTokens":` + strings.Repeat("9", 200_000) + `,"outputTokens":0}}`, 1 << 20},
		{"1 MB of commas", head + "[" + strings.Repeat(",", 1<<20), 4 << 10},
		{"1 MB of quotes", strings.Repeat(`"`, 1<<20), 64 << 10},
		{"1 MB of backslashes", `{"type":"` + strings.Repeat(`\`, 1<<20), 64 << 10},
		{"1 MB of half escapes", `{"type":"` + strings.Repeat(`\u`, 1<<19), 64 << 10},
		{"1 MB of lone surrogates in a type", `{"type":"` + strings.Repeat(`\ud800`, 1<<17) + `"}`, 2 << 20},
		{"1 MB of white space", strings.Repeat(" ", 1<<20), 4 << 10},
		{"1 MB of white space before each colon", `{"type"` + strings.Repeat(" ", 1<<20), 64 << 10},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			input := []byte(tt.input)
			refuse := func() {
				if c, err := chunk.Decode(input); err == nil {
					t.Fatalf("accepted as %+v", c)
				}
			}
			refuse() // from here on the pool of tokenizers is filled
			if got := allocated(refuse); got > tt.maxBytes {
				t.Errorf("%d bytes allocated for %d of input, want at most %d", got, len(input), tt.maxBytes)
			}
		})
	}
}

// allocated returns the number of bytes that f allocates, the minimum of three calls, because the runtime sometimes allocates too.
func allocated(f func()) uint64 {
	lowest := ^uint64(0)
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		lowest = min(lowest, after.TotalAlloc-before.TotalAlloc)
	}
	return lowest
}

// A text at the limits costs in proportion to its size.
func TestLargestChunkCostsItsSize(t *testing.T) {
	input := []byte(`{"type":"output",` + base + `,"output":[` + strings.Repeat(`"abcdefghijklmnopqrst",`, 19_990) + `0]}`)
	read := func() {
		if _, err := chunk.Decode(input); err != nil {
			t.Fatal(err)
		}
	}
	read()
	if got, maxBytes := allocated(read), uint64(2*len(input)); got > maxBytes {
		t.Errorf("%d bytes allocated for %d of input, want at most %d", got, len(input), maxBytes)
	}
}

// Decoding and encoding a delta allocates the strings and the body, and nothing else.
func TestAllocationsOfADelta(t *testing.T) {
	text := []byte(`{"type":"text_delta",` + base + `,"delta":"Hello"}`)
	c, err := chunk.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = chunk.Decode(text) }); n > 6 && !raceEnabled {
		t.Errorf("Decode allocates %v times, want at most 6", n)
	}
	dst := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() { _, _ = c.AppendJSON(dst) }); n > 0 && !raceEnabled {
		t.Errorf("AppendJSON allocates %v times", n)
	}
}
