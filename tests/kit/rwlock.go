package kit

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rwlock"
)

// OrdersRW is the read-write lock "orders"; its holds are renewed if fixed is 0, otherwise they have that lease.
func OrdersRW(s *holdfast.Session, fixed time.Duration) *rwlock.RWMutex {
	return rwlock.New(s, Orders, &rwlock.Options{FixedLease: fixed})
}

// OrdersReadHold is the key of an owner's n-th read hold of OrdersRW.
func OrdersReadHold(owner string, n int) string {
	return fmt.Sprintf("{%s}:%s:rwlock_timeout:%d", Orders, owner, n)
}
