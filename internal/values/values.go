// Package values has the references to values that are too large for a message. The writer of a run stores such a value as an object of the session, and puts in
// its place in the chunk
//
//	{"tailraceValue":"3-tool_end-result-9f86…","bytes":614402,"mediaType":"application/json","url":"/v1/sessions/s1/values/3-tool_end-result-9f86…"}
//
// or, where the chunk has the URL of a file, that url. A reference has no session: it is read in the session of the chunk, so one that a user makes up names
// nothing of another session. The name has the type and the member of the chunk, so a view that hides the member hides the object.
package values

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"mime"
	"net/url"
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

const (
	// MaxBytes is the largest size of a value.
	MaxBytes = 32 << 20

	// MinBytes is the smallest size of a value that is stored as an object, if its chunk is too large for a message.
	MinBytes = 16 << 10

	// JSON is the media type of a value that is not a file.
	JSON = "application/json"

	// CodeTooLarge is the code of a call or part whose value exceeds a limit.
	CodeTooLarge = "value_too_large"

	// CodeLost is the code of a run whose input has a file that is not stored any more.
	CodeLost = "value_lost"

	// Upload is the type in the key of a file whose message no run has written yet.
	Upload chunk.Type = "upload"
)

// Key names a value of a session.
type Key struct {
	Epoch  chunk.Epoch // of the run that wrote it, 0 for an Upload
	Type   chunk.Type  // of the chunk that has it, or Upload …
	Member string      // … and the member of that chunk, or UploadsOf the run
	SHA256 string      // of the data, in hexadecimal digits
}

// NewKey returns the key of data.
func NewKey(e chunk.Epoch, typ chunk.Type, member string, data []byte) Key {
	sum := sha256.Sum256(data)
	return Key{Epoch: e, Type: typ, Member: member, SHA256: hex.EncodeToString(sum[:])}
}

// UploadKey returns the key of a file of the message that a run will answer. The worker of the run stores the file again, as a value of the run: the epoch of the
// run is not known before, and a deletion of the session removes the values of earlier epochs.
func UploadKey(run string, data []byte) Key { return NewKey(0, Upload, UploadsOf(run), data) }

// UploadsOf returns the member in the keys of the files for a run: 32 letters.
func UploadsOf(run string) string {
	sum := sha256.Sum256([]byte(run))
	return strings.Map(func(digit rune) rune {
		if digit <= '9' {
			return digit - '0' + 'g'
		}
		return digit
	}, hex.EncodeToString(sum[:16]))
}

// ShownAs returns the type and the member of the chunk that shows the value.
func (k Key) ShownAs() (chunk.Type, string) {
	if k.Type == Upload {
		return chunk.TypeRunStarted, "input"
	}
	return k.Type, k.Member
}

// String returns the form of a key in references and paths.
func (k Key) String() string {
	return strconv.FormatUint(uint64(k.Epoch), 10) + "-" + string(k.Type) + "-" + k.Member + "-" + k.SHA256
}

// ParseKey is the inverse of Key.String. All tokens of a Key that it returns may be tokens of a subject.
func ParseKey(text string) (k Key, ok bool) {
	parts := strings.Split(text, "-")
	if len(parts) != 4 || !isName(parts[1]) || !isName(parts[2]) {
		return k, false
	}
	epoch, err := strconv.ParseUint(parts[0], 10, 64)
	sum, bad := hex.DecodeString(parts[3])
	k = Key{Epoch: chunk.Epoch(epoch), Type: chunk.Type(parts[1]), Member: parts[2], SHA256: parts[3]}
	return k, err == nil && bad == nil && len(sum) == sha256.Size && hex.EncodeToString(sum) == k.SHA256 && k.String() == text
}

// isName reports whether s can be the name of a type or a member of the chunk schema.
func isName(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_") == ""
}

// URL returns the path and query of a value at an edge.
func URL(s chunk.Session, k Key) string {
	u := "/v1/sessions/" + url.PathEscape(s.ID) + "/values/" + k.String()
	if !s.IsRoot() {
		u += "?root=" + url.QueryEscape(s.Root)
	}
	return u
}

// OfURL returns the session and the key in a URL of a value of the tree of s.
func OfURL(s chunk.Session, u string) (chunk.Session, Key, bool) {
	path, query, child := strings.Cut(u, "?root=")
	rest, ok := strings.CutPrefix(path, "/v1/sessions/")
	id, name, found := strings.Cut(rest, "/values/")
	k, valid := ParseKey(name)
	of := s.Tree()
	if child {
		id, _ = url.PathUnescape(id)
		of = s.Child(id)
	}
	return of, k, ok && found && valid && u == URL(of, k) && (!child || query != "")
}

// Identity returns a text that is the same for a file in a data URL and for a reference to it. It is u for another URL.
func Identity(u string) string {
	if _, data, ok := DataURL(u); ok {
		return NewKey(0, "", "", data).SHA256
	}
	path, _, _ := strings.Cut(u, "?")
	if _, name, found := strings.Cut(path, "/values/"); found && strings.HasPrefix(u, "/v1/sessions/") {
		if k, ok := ParseKey(name); ok {
			return k.SHA256
		}
	}
	return u
}

// start begins each reference. No string of a JSON text contains it, because a string has no quote that is not escaped.
var start = []byte(`{"tailraceValue":"`)

type ref struct {
	Key       string `json:"tailraceValue"`
	Bytes     int    `json:"bytes"`
	MediaType string `json:"mediaType"`
	URL       string `json:"url"`
}

// Reference returns the reference to a JSON value of s.
func Reference(s chunk.Session, k Key, size int) chunk.Value {
	text, err := json.Marshal(ref{k.String(), size, JSON, URL(s, k)})
	if err != nil {
		panic("values: strings and an integer cannot be encoded: " + err.Error())
	}
	return text
}

// Expand returns a JSON text in which the references to values of the tree of s are replaced by what load returns for them. A reference for which load returns
// nil stays. The text itself is returned if it has no reference.
func Expand(text []byte, s chunk.Session, load func(of chunk.Session, k Key, size int) []byte) []byte {
	// No member of a reference has a brace.
	return expand(text, start, []byte("}"), func(value []byte) []byte { return loadReference(value, s, load) })
}

// ExpandTexts is Expand also for strings that are references as a whole: AG-UI has JSON values as texts.
func ExpandTexts(text []byte, s chunk.Session, load func(of chunk.Session, k Key, size int) []byte) []byte {
	text = expand(text, startText, []byte(`}"`), func(value []byte) []byte {
		var inner string
		if json.Unmarshal(value, &inner) != nil {
			return nil
		}
		data := loadReference([]byte(inner), s, load)
		if len(data) == 0 || data[0] == '"' { // a string is the text itself
			return data
		}
		return rawjson.AppendQuoted(make([]byte, 0, len(data)+len(data)/4), data)
	})
	return Expand(text, s, load)
}

// startText begins each reference that is a string.
var startText = []byte(`"{\"tailraceValue\":\"`)

// loadReference returns the value that a reference names, nil if value is not a reference or load returns nil.
func loadReference(value []byte, s chunk.Session, load func(of chunk.Session, k Key, size int) []byte) []byte {
	var r ref
	if json.Unmarshal(value, &r) != nil || r.MediaType != JSON || r.Bytes <= 0 {
		return nil
	}
	if of, k, ok := OfURL(s, r.URL); ok && k.String() == r.Key {
		return load(of, k, r.Bytes)
	}
	return nil
}

// expand replaces the parts of a text between two marks for which replace does not return nil.
func expand(text, begin, end []byte, replace func(part []byte) []byte) []byte {
	var out []byte
	for rest := text; ; {
		i := bytes.Index(rest, begin)
		length := 0
		if i >= 0 {
			length = bytes.Index(rest[i:], end) + len(end)
		}
		if i < 0 || length < len(begin) {
			if out == nil {
				return text
			}
			return append(out, rest...)
		}
		part := rest[i : i+length]
		if value := replace(part); value != nil {
			part = value
		}
		out = append(append(out, rest[:i]...), part...)
		rest = rest[i+length:]
	}
}

// Move returns a JSON text in which the references to values of the tree of from name values of another session, of its first epoch. copied stores the value k of a
// session as the value as of that session; a reference for which it returns false stays.
func Move(text []byte, from, to chunk.Session, copied func(of chunk.Session, k, as Key) (bool, error)) ([]byte, error) {
	const begin = `"url":"`
	moved := make(map[string]bool)
	for rest := text; ; {
		i := bytes.Index(rest, []byte(begin+"/v1/sessions/"))
		if i < 0 {
			return text, nil
		}
		rest = rest[i+len(begin):]
		u := string(rest[:max(0, bytes.IndexByte(rest, '"'))])
		of, k, ok := OfURL(from, u)
		if !ok || moved[u] {
			continue
		}
		moved[u] = true
		as := k
		as.Epoch = 1
		if ok, err := copied(of, k, as); err != nil {
			return nil, err
		} else if !ok {
			continue
		}
		text = bytes.ReplaceAll(text, []byte(begin+u+`"`), []byte(begin+URL(to, as)+`"`))
		text = bytes.ReplaceAll(text, []byte(string(start)+k.String()+`"`), []byte(string(start)+as.String()+`"`))
	}
}

// DataURL returns the media type and the data of a data URL, false for another URL and for one without base64.
func DataURL(u string) (mediaType string, data []byte, ok bool) {
	head, text, found := strings.Cut(u, ",")
	head, encoded := strings.CutSuffix(head, ";base64")
	head, is := strings.CutPrefix(head, "data:")
	if !found || !encoded || !is {
		return "", nil, false
	}
	if mediaType, _, _ = mime.ParseMediaType(head); mediaType == "" {
		mediaType = "text/plain"
	}
	data, err := base64.StdEncoding.DecodeString(text)
	return mediaType, data, err == nil
}

// MakeDataURL is the inverse of DataURL.
func MakeDataURL(mediaType string, data []byte) string {
	return "data:" + mediaType + ";base64," + base64.StdEncoding.EncodeToString(data)
}
