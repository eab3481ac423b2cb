package webhook

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"

	"modernc.org/sqlite"
)

// openStatements opens a SQLite database whose connections keep their statements.
func openStatements(dsn string) (*sql.DB, error) {
	connector, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(keeping{connector}), nil
}

// keeping opens connections that keep their statements. Most of ours, and of
// River's, take SQLite longer to understand than to carry out.
type keeping struct{ driver.Connector }

// Connect implements driver.Connector.
func (k keeping) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := k.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	able, ok := conn.(ableConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("a %T cannot keep statements", conn), conn.Close())
	}
	return &keepingConn{ableConn: able, idle: map[string]ableStmt{}}, nil
}

// ableConn is all that a connection to SQLite can do.
type ableConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// ableStmt is all that a statement of SQLite can do.
type ableStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// maxIdle is how many statements a connection keeps: more than are in use, and at
// most a few megabytes.
const maxIdle = 100

// keepingConn keeps its statements for the next time.
type keepingConn struct {
	ableConn
	// idle are the statements that are not in use, by their text.
	idle map[string]ableStmt
}

// ExecContext implements driver.ExecerContext.
func (c *keepingConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	s, err := c.take(ctx, query)
	if err != nil {
		return nil, err
	}
	result, err := s.ExecContext(ctx, args)
	if err := c.giveBack(query, s, err); err != nil {
		return nil, err
	}
	return result, nil
}

// QueryContext implements driver.QueryerContext.
func (c *keepingConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	s, err := c.take(ctx, query)
	if err != nil {
		return nil, err
	}
	rows, err := s.QueryContext(ctx, args)
	if err != nil {
		return nil, c.giveBack(query, s, err)
	}
	return &keptRows{Rows: rows, conn: c, query: query, stmt: s}, nil
}

// take returns a statement that nobody else uses.
func (c *keepingConn) take(ctx context.Context, query string) (ableStmt, error) {
	if s, ok := c.idle[query]; ok {
		delete(c.idle, query)
		return s, nil
	}
	s, err := c.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	able, ok := s.(ableStmt)
	if !ok {
		return nil, errors.Join(fmt.Errorf("a %T cannot be kept", s), s.Close())
	}
	return able, nil
}

// giveBack keeps a statement whose use ended with err, which it returns. One that
// has failed is not kept, nor is a pragma, as some act when they are prepared;
// where there are too many any of them goes.
func (c *keepingConn) giveBack(query string, s ableStmt, err error) error {
	if _, twice := c.idle[query]; twice || err != nil || strings.HasPrefix(query, "PRAGMA") {
		if closeErr := s.Close(); err == nil {
			err = closeErr
		}
		return err
	}
	for other, old := range c.idle {
		if len(c.idle) < maxIdle {
			break
		}
		delete(c.idle, other)
		if err := old.Close(); err != nil {
			return errors.Join(err, s.Close())
		}
	}
	c.idle[query] = s
	return nil
}

// Close implements driver.Conn.
func (c *keepingConn) Close() error {
	var errs []error
	for _, s := range c.idle {
		errs = append(errs, s.Close())
	}
	clear(c.idle)
	return errors.Join(append(errs, c.ableConn.Close())...)
}

// keptRows give their statement back when they are closed.
type keptRows struct {
	driver.Rows
	conn  *keepingConn
	query string
	stmt  ableStmt
	// failed is why the statement is not to be used again.
	failed error
}

// Next implements driver.Rows.
func (r *keptRows) Next(dest []driver.Value) error {
	err := r.Rows.Next(dest)
	if err != nil && !errors.Is(err, io.EOF) {
		r.failed = err
	}
	return err
}

// Close implements driver.Rows.
func (r *keptRows) Close() error {
	err := r.Rows.Close()
	if r.failed != nil {
		return errors.Join(err, r.stmt.Close())
	}
	return r.conn.giveBack(r.query, r.stmt, err)
}
