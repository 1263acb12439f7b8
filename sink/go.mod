module github.com/tailrace/tailrace/sink

go 1.26.0

replace github.com/tailrace/tailrace => ../

require github.com/tailrace/tailrace v0.0.0

require (
	github.com/go-json-experiment/json v0.0.0-20260820222146-c27c302e5fc3 // indirect
	github.com/google/go-cmp v0.7.0
	pgregory.net/rapid v1.3.0
)
