// A transaction that refuses a holder that comes too late.
package p19

import (
	"context"
	"database/sql"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/rlock"
)

// SetPrice changes a price by a rule that needs the old one.
func SetPrice(ctx context.Context, s *holdfast.Session, db *sql.DB, sku string, rule func(cents int) int) error {
	name := "price:" + sku
	hold, err := rlock.New(s, name, &rlock.Options{Fenced: true}).Lock(ctx)
	if err != nil {
		return err
	}
	defer hold.Release()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := fence.Check(ctx, tx, fence.PostgreSQL, name, hold.Token()); err != nil {
		return err // it matches fence.ErrStale: somebody has locked it since
	}
	var cents int
	if err := tx.QueryRowContext(ctx, `SELECT cents FROM prices WHERE sku = $1`, sku).Scan(&cents); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `UPDATE prices SET cents = $1 WHERE sku = $2`, rule(cents), sku); err != nil {
		return err
	}
	return tx.Commit()
}
