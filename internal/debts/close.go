package debts

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
)

// A Giving is a call that gives a lock back, and what an error of it means.
type Giving struct {
	Call  *script.Call
	Means func(err error) error
}

// GiveBack runs the calls of a session that is being closed, again and again until their outcomes are known or ctx
// ends. endless is how many permits without an end may be taken once more by calls that are under way.
func GiveBack(ctx context.Context, s *session.Session, calls []Giving, endless int) (err error) {
	if endless > 0 {
		err = fmt.Errorf("close: %d permits without an end may still be taken by calls that are under way", endless)
	}
	all, failed, why, last := len(calls), 0, error(nil), error(nil)
	var tries session.Tries
	for tries.Next(ctx) {
		n := 0
		if calls, n, last = giveBackOnce(ctx, s, calls); n > 0 {
			failed, why = failed+n, last
		}
		if len(calls) == 0 {
			break
		}
	}
	if len(calls) > 0 { // ctx has ended
		failed, why = failed+len(calls), last
	}
	if failed == 0 {
		return err
	}
	return errors.Join(err,
		fmt.Errorf("close: %d of %d releases failed: %w", failed, all, session.Explain(context.Background(), why)))
}

// giveBackOnce runs the calls, and returns those whose outcome may still become known, how many others have failed,
// and the last error: of those others, if there are any.
func giveBackOnce(ctx context.Context, s *session.Session, givings []Giving) (again []Giving, failed int, why error) {
	calls := make([]*script.Call, len(givings))
	for i, giving := range givings {
		calls[i] = giving.Call
	}
	s.Runner().RunAll(ctx, calls, func(i int, err error) {
		err = givings[i].Means(err)
		switch {
		case script.IsTemporary(err):
			if again = append(again, givings[i]); failed == 0 {
				why = err
			}
			return
		case err != nil:
			failed, why = failed+1, err
		}
		calls[i].Free()
	})
	return again, failed, why
}
