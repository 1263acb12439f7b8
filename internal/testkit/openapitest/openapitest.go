// Package openapitest checks a server against docs/openapi.yaml: every response
// must conform to the document, and the tests must have covered every response
// and parameter of the document.
//
//	doc := openapitest.Load(t)
//	doc.Check(t, resp, body) // for every request
//	for _, what := range doc.Unseen("edge") {
//		t.Errorf("%s is not covered", what)
//	}
//
// It is stricter than the document: an object must not have unlisted members.
package openapitest

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// Document is docs/openapi.yaml and the set of its elements that were checked.
// Check may be called concurrently.
type Document struct {
	doc *openapi3.T

	mu   sync.Mutex
	seen map[string]bool
}

// Load reads and validates the document.
func Load(tb testing.TB) *Document {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	path := filepath.Join("docs", "openapi.yaml")
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, path)); err == nil {
			break
		}
	}
	doc, err := openapi3.NewLoader().LoadFromFile(filepath.Join(dir, path))
	if err != nil {
		tb.Fatal(err)
	}
	if err := doc.Validate(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	for _, schema := range doc.Components.Schemas {
		rejectUnlisted(schema.Value)
	}
	return &Document{doc: doc, seen: make(map[string]bool)}
}

// rejectUnlisted makes the schema reject unlisted members.
func rejectUnlisted(schema *openapi3.Schema) {
	if len(schema.Properties) > 0 && schema.AdditionalProperties.Has == nil && schema.AdditionalProperties.Schema == nil {
		no := false
		schema.AdditionalProperties.Has = &no
	}
	for _, member := range schema.Properties {
		if member.Ref == "" {
			rejectUnlisted(member.Value)
		}
	}
}

// Operations returns the operations with a tag, as "GET /v1/events", sorted.
func (d *Document) Operations(tag string) []string {
	var all []string
	for path, item := range d.doc.Paths.Map() {
		for method, op := range item.Operations() {
			if slices.Contains(op.Tags, tag) {
				all = append(all, method+" "+path)
			}
		}
	}
	slices.Sort(all)
	return all
}

// Check checks a response against the document. The body of a stream may be
// incomplete.
func (d *Document) Check(tb testing.TB, resp *http.Response, body []byte) {
	tb.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.check(resp, body); err != nil {
		tb.Errorf("%s %s: %d %v", resp.Request.Method, resp.Request.URL, resp.StatusCode, err)
	}
}

func (d *Document) check(resp *http.Response, body []byte) error {
	name, item, op := d.find(resp.Request)
	if op == nil {
		if resp.StatusCode == http.StatusMethodNotAllowed && item != nil {
			return nil
		}
		return errors.New("operation is not in the document")
	}
	status := strconv.Itoa(resp.StatusCode)
	answer := op.Responses.Value(status)
	if answer == nil {
		status, answer = "default", op.Responses.Default()
	}
	if answer == nil {
		return fmt.Errorf("%s: status is not in the document", name)
	}
	d.seen[name+" "+status] = true
	if resp.StatusCode < http.StatusBadRequest {
		if err := d.checkParameters(name, item, op, resp.Request); err != nil {
			return err
		}
	}
	return errors.Join(checkHeaders(answer.Value, resp.Header), checkBody(answer.Value, resp, body))
}

// find returns the operation of a request, of several paths that match that of the one without a parameter there. HEAD is treated as GET.
func (d *Document) find(req *http.Request) (name string, item *openapi3.PathItem, op *openapi3.Operation) {
	method := req.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for path, at := range d.doc.Paths.Map() {
		if matchesPath(path, req.URL.EscapedPath()) && (op == nil || path == req.URL.EscapedPath()) && (item == nil || at.GetOperation(method) != nil) {
			name, item, op = method+" "+path, at, at.GetOperation(method)
		}
	}
	return name, item, op
}

func matchesPath(template, path string) bool {
	want, got := strings.Split(template, "/"), strings.Split(path, "/")
	return slices.EqualFunc(want, got, func(w, g string) bool { return w == g || strings.HasPrefix(w, "{") })
}

// checkParameters rejects query parameters that are not in the document and
// records the others as seen.
func (d *Document) checkParameters(name string, item *openapi3.PathItem, op *openapi3.Operation, req *http.Request) error {
	all := slices.Concat(item.Parameters, op.Parameters)
	for param := range req.URL.Query() {
		if all.GetByInAndName("query", param) == nil {
			return fmt.Errorf("parameter %q is not in the document", param)
		}
		d.seen[name+" query "+param] = true
	}
	for _, p := range all {
		if p.Value.In == "header" && req.Header.Get(p.Value.Name) != "" || p.Value.In == "path" {
			d.seen[name+" "+p.Value.In+" "+p.Value.Name] = true
		}
	}
	return nil
}

func checkHeaders(answer *openapi3.Response, got http.Header) error {
	for name, h := range answer.Headers {
		text := got.Get(name)
		if text == "" {
			if h.Value.Required {
				return fmt.Errorf("header %s is missing", name)
			}
			continue
		}
		var value any = text
		if h.Value.Schema.Value.Type.Is("integer") {
			n, err := strconv.Atoi(text)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			value = float64(n)
		}
		if err := h.Value.Schema.Value.VisitJSON(value, openapi3.EnableJSONSchema2020()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func checkBody(answer *openapi3.Response, resp *http.Response, body []byte) error {
	if len(answer.Content) == 0 {
		if len(body) > 0 || resp.Header.Get("Content-Type") != "" {
			return fmt.Errorf("unexpected body: %s", body)
		}
		return nil
	}
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("Content-Type: %w", err)
	}
	content := answer.Content[kind]
	switch {
	case answer.Content["*/*"] != nil: // what an agent or a user has stored
		return nil
	case content == nil:
		return fmt.Errorf("Content-Type %s is not in the document", kind)
	case resp.Request.Method == http.MethodHead:
		return nil
	case !strings.HasSuffix(kind, "json"):
		return content.Schema.Value.VisitJSON(string(body), openapi3.EnableJSONSchema2020())
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return fmt.Errorf("%w: %s", err, body)
	}
	if err := content.Schema.Value.VisitJSON(value, openapi3.EnableJSONSchema2020()); err != nil {
		return fmt.Errorf("%w: %s", err, body)
	}
	return nil
}

// Unseen returns the statuses and parameters of the operations with a tag that
// were never checked. A parameter counts only with a successful response.
func (d *Document) Unseen(tag string) []string {
	var unseen []string
	for path, item := range d.doc.Paths.Map() {
		for method, op := range item.Operations() {
			if !slices.Contains(op.Tags, tag) {
				continue
			}
			for status := range op.Responses.Map() {
				unseen = append(unseen, method+" "+path+" "+status)
			}
			for _, p := range slices.Concat(item.Parameters, op.Parameters) {
				unseen = append(unseen, method+" "+path+" "+p.Value.In+" "+p.Value.Name)
			}
		}
	}
	unseen = slices.DeleteFunc(unseen, func(what string) bool { return d.seen[what] })
	slices.Sort(unseen)
	return unseen
}
