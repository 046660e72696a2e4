//go:build !unix

package fleet

import (
	"errors"
	"time"
)

// Suspend is not possible here.
func (*Process) Suspend() error { return errors.ErrUnsupported }

// Wake is not possible here.
func (*Process) Wake() error { return errors.ErrUnsupported }

// Uptime is a clock that all processes of a machine share.
func Uptime() time.Duration { return time.Duration(time.Now().UnixNano()) }
