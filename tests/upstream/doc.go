// Package upstream shows what libraries do wrong that Holdfast uses or shares locks with, one test for each; see
// README.md.
package upstream
