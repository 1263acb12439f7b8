package anthropic

import (
	"bytes"
	"cmp"
	"fmt"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// citation writes a source. The chunk has the citation too: the text that is cited, and where it is.
func (t *translator) citation(a *agent, b *block, c *dialect.Object) {
	if c == nil {
		return
	}
	t.current(a)
	whole := c.GetAll()
	if b != nil && t.sdk && !b.whole {
		b.sources = append(b.sources, bytes.Clone(whole))
	}
	a.sources++
	id := fmt.Sprintf("source_%d_%d", a.Step, a.sources)
	var body chunk.Body
	switch kind := c.Or("type", ""); kind {
	case "web_search_result_location":
		body = chunk.SourceURL{SourceID: id, URL: c.Or("url", ""), Title: c.Maybe("title")}
	case "char_location", "content_block_location", "search_result_location":
		body = chunk.SourceDocument{SourceID: id, MediaType: "text/plain", Title: c.Or("document_title", cmp.Or(c.Or("title", ""), c.Or("source", "")))}
	case "page_location":
		body = chunk.SourceDocument{SourceID: id, MediaType: "application/pdf", Title: c.Or("document_title", "")}
	}
	o := rawjson.Begin(nil)
	o.Raw("citation", whole)
	if body == nil || !a.EmitValid(body, chunk.Member{Name: memberName, Value: o.End()}) {
		a.Keep("citation", redact(whole))
	}
}
