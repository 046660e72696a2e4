//go:build !unix

package demo

import "errors"

func (*process) suspend() error { return errors.ErrUnsupported }
func (*process) wake() error    { return errors.ErrUnsupported }
