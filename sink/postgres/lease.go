package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// lease is the advisory lock of a name, on a connection of its own. It only saves work: a process that has lost it gets row.ErrConflict from its next commit.
type lease struct {
	config *pgx.ConnConfig
	turn   chan struct{} // holds a token while a call uses conn
	conn   *pgx.Conn     // nil, or the connection that has the lock
}

// leaseSettings end the connection within about a minute after the host of its process has gone, and each wait for the lock after a minute: a statement that waits has a
// snapshot, which keeps VACUUM from removing rows.
const leaseSettings = `SET tcp_keepalives_idle = 20; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3; SET lock_timeout = '60s'`

const lockNotAvailable = "55P03" // SQLSTATE of a wait that lock_timeout has ended

// isHeld reports whether this process has the lease.
func (l *lease) isHeld(ctx context.Context) bool { return l.conn != nil && l.conn.Ping(ctx) == nil }

// acquire waits until no other process has the lease.
func (l *lease) acquire(ctx context.Context, name string) error {
	if err := l.release(); err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, l.config.Copy())
	if err != nil {
		return err
	}
	if err := lock(ctx, conn, name); err != nil {
		return errors.Join(err, closeConn(conn))
	}
	l.conn = conn
	return nil
}

func lock(ctx context.Context, conn *pgx.Conn, name string) error {
	if _, err := conn.Exec(ctx, leaseSettings); err != nil {
		return err
	}
	for {
		_, err := conn.Exec(ctx, `SELECT pg_advisory_lock(hashtextextended('tailrace sink ' || $1, 0))`, name)
		if pgError := new(pgconn.PgError); errors.As(err, &pgError) && pgError.Code == lockNotAvailable {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait for the lease: %w", err)
		}
		return nil
	}
}

// release closes the connection, and so the server releases the lock.
func (l *lease) release() error {
	if l.conn == nil {
		return nil
	}
	conn := l.conn
	l.conn = nil
	return closeConn(conn)
}

func closeConn(conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return conn.Close(ctx)
}
