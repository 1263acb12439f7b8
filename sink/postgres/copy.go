package postgres

import (
	"context"
	"fmt"
	"math/big"
	"reflect"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tailrace/tailrace/sink/row"
)

// copyRows copies rows into a table that has the columns of t.
func copyRows[T any](ctx context.Context, tx pgx.Tx, into pgx.Identifier, t table, rows []T) error {
	if len(rows) == 0 {
		return nil
	}
	values := make([]any, len(t.columns))
	source := pgx.CopyFromSlice(len(rows), func(i int) ([]any, error) {
		of := reflect.ValueOf(&rows[i]).Elem()
		for k, c := range t.columns {
			values[k] = encodable(c.Value(of))
		}
		return values, nil
	})
	if _, err := tx.CopyFrom(ctx, into, t.names(), source); err != nil {
		return fmt.Errorf("copy rows of %s: %w", t.name, err)
	}
	return nil
}

// encodable returns a value of a column as pgx encodes it.
func encodable(value any) any {
	switch v := value.(type) {
	case row.JSON:
		return string(v)
	case row.Money:
		return pgtype.Numeric{Int: big.NewInt(int64(v)), Exp: -9, Valid: true}
	}
	return value
}
