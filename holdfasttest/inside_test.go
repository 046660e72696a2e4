package holdfasttest_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/setlock"
)

// The types of the API have the methods that are written for users, and nothing internal: no fields, and no methods
// by embedding. The test is not in the root, because these tests import all kinds anyway: there, they would be compiled
// once more for it.
func TestNothingOfTheInsideIsExported(t *testing.T) {
	for _, of := range []any{
		holdfast.Session{},
		holdfast.Hold{},
		holdfast.Mutex{},
		rlock.Mutex{},
		fairlock.Mutex{},
		rwlock.RWMutex{},
		rwlock.Half{},
		setlock.Mutex{},
		semaphore.Semaphore{},
		semaphore.Expirable{},
		latch.Latch{},
		multilock.MultiLock{},
		multilock.RedLock{},
	} {
		typ := reflect.TypeOf(of)
		for _, f := range reflect.VisibleFields(typ) {
			if f.Type == reflect.TypeFor[holdfast.Mutex]() {
				continue // what all locks share
			}
			assert.False(t, f.IsExported() || f.Anonymous, "%v.%s", typ, f.Name)
		}
	}
}
