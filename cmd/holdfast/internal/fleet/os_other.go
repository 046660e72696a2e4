//go:build !unix

package fleet

import "errors"

// Suspend is not possible here.
func (*Process) Suspend() error { return errors.ErrUnsupported }

// Wake is not possible here.
func (*Process) Wake() error { return errors.ErrUnsupported }
