//go:build linux

package main

import (
	"github.com/windows-machine-config/wmco/internal/shared/mask"
	"github.com/windows-machine-config/wmco/internal/shared/mask/masktest"
)

// measureMask counts the shapes of secrets that the masker of logs and archives lets through.
func measureMask(s *sheet) {
	s.number("mask.shapes", float64(len(masktest.Shapes())), "shapes")
	s.number("mask.shapes_leaked", float64(len(masktest.Leaks(mask.New().Text))), "shapes")
}
