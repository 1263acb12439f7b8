package rawjson_test

import (
	"testing"

	"github.com/tailrace/tailrace/internal/rawjson"
)

func TestObject(t *testing.T) {
	o := rawjson.Begin([]byte("x"))
	o.Int("none", 0)
	o.Text("none", "")
	o.Flag("none", false)
	o.Maybe("none", nil)
	o.Raw("none", nil)
	o.List("none", 0, nil)
	o.String("string", "a\b\n")
	o.Bytes("bytes", []byte("\xed\xa0\xbd"))
	o.Text("text", "t")
	o.Maybe("maybe", new(""))
	o.Content("content", []byte(`\ud83d`))
	o.Nest("object")
	o.Int("int", -1)
	o.Nest("empty")
	o.Close()
	o.Flag("flag", true)
	o.Close()
	o.Bool("bool", false)
	o.Raw("raw", []byte("1e400"))
	o.List("list", 2, func(dst []byte, i int) []byte { return append(dst, byte('0'+i)) })
	const want = `x{"string":"a\u0008\n","bytes":"\ud83d","text":"t","maybe":"","content":"\ud83d","object":{"int":-1,"empty":{},"flag":true},"bool":false,"raw":1e400,"list":[0,1]}`
	if got := string(o.End()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
