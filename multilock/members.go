package multilock

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/core"
)

// inside is what the locks of this module have.
type inside interface{ Inside() *core.Lock }

// same reports whether two members would exclude each other, as far as can be seen here.
func same(a, b holdfast.Locker) bool {
	x, ok := a.(inside)
	y, alike := b.(inside)
	if ok && alike {
		return x.Inside().Same(y.Inside())
	}
	return reflect.TypeOf(a).Comparable() && a == b
}

// isNil reports whether there is no lock at all.
func isNil(l holdfast.Locker) bool {
	v := reflect.ValueOf(l)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// mistake is what is wrong with a lock's name or options, as far as can be seen here.
func mistake(l holdfast.Locker) (err error) {
	switch l := l.(type) {
	case inside:
		err = wrong(l.Inside())
	case *RedLock:
		err = l.quorum.Wrong()
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("lock %q: %w", l.Name(), err)
}

// wrong is what keeps a lock from being one of several.
func wrong(l *core.Lock) error {
	if err := l.Wrong(); err != nil {
		return err
	}
	if l.Token != "" {
		return errors.New("Options.Token is set, must not be: what an attempt that fails has taken could not be given back")
	}
	return nil
}

// key is what the server knows a lock by, which is the same for everybody.
func key(l holdfast.Locker) string {
	if l, ok := l.(inside); ok {
		return l.Inside().Key()
	}
	return l.Name()
}

// order is that in which locks are taken. Of a read-write lock the write half comes first: who reads cannot
// write.
func order(a, b holdfast.Locker) int {
	if byKey := strings.Compare(key(a), key(b)); byKey != 0 {
		return byKey
	}
	x, ok := a.(inside)
	y, alike := b.(inside)
	switch {
	case !ok || !alike || x.Inside().Shared == y.Inside().Shared:
		return 0
	case y.Inside().Shared:
		return -1
	}
	return 1
}
