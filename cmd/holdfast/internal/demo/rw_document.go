package demo

import "fmt"

// A document is two files with a number each, which must always agree. It is written one after
// the other, so who reads it in between sees half of what was written.
type document struct{ head, foot counter }

func documentIn(file string) document {
	return document{head: counter(file), foot: counter(file + ".foot")}
}

// audit says whether the document is whole.
func (d document) audit() error {
	head, err := d.head.read()
	if err != nil {
		return err
	}
	foot, err := d.foot.read()
	if err == nil && head != foot {
		err = fmt.Errorf("the document was left half-written, %s", differ(head, foot))
	}
	return err
}

// differ says what a half-written document looks like.
func differ(head, foot int) string {
	return fmt.Sprintf("with %d at its head and %d at its foot", head, foot)
}
