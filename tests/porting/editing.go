package porting

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
)

// Exclusive is the port of DocumentFilter. Here a deferred call can unlock.
func Exclusive(session *holdfast.Session, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		document := rlock.New(session, "documents:"+r.PathValue("id"), nil)
		hold, err := document.TryLockFor(r.Context(), 2*time.Second)
		switch {
		case errors.Is(err, holdfast.ErrBusy):
			http.Error(w, "somebody is editing it", http.StatusConflict)
			return
		case err != nil:
			http.Error(w, "no lock", http.StatusServiceUnavailable)
			return
		}
		defer hold.Release()
		next.ServeHTTP(w, r.WithContext(hold.Context(r.Context())))
	})
}

type documentKey struct{}

// Begin locks a document; End unlocks it. What is called in between gets the context, and may lock it again.
func Begin(ctx context.Context, session *holdfast.Session, id string) (context.Context, error) {
	hold, err := rlock.New(session, "documents:"+id, nil).Lock(ctx)
	if err != nil {
		return nil, err
	}
	return context.WithValue(hold.Context(ctx), documentKey{}, hold), nil
}

// End unlocks what Begin has locked, in any goroutine.
func End(ctx context.Context) error {
	hold, ok := ctx.Value(documentKey{}).(*holdfast.Hold)
	if !ok {
		return holdfast.ErrNotHeld
	}
	return hold.Release()
}

// An Edit keeps its hold, as it would keep a transaction.
type Edit struct {
	hold *holdfast.Hold
	save func(ctx context.Context) error
}

// Open starts to edit a document. It is locked until Close, whatever happens to ctx.
func Open(ctx context.Context, session *holdfast.Session, id string,
	save func(ctx context.Context) error,
) (*Edit, error) {
	hold, err := rlock.New(session, "documents:"+id, nil).Lock(ctx)
	if err != nil {
		return nil, err
	}
	return &Edit{hold: hold, save: save}, nil
}

// Save saves while the document is locked; it returns an error if the lock was lost.
func (e *Edit) Save(ctx context.Context) error {
	if err := e.hold.Err(); err != nil {
		return err
	}
	return e.save(e.hold.Context(ctx))
}

// Close unlocks the document.
func (e *Edit) Close() error { return e.hold.Release() }
