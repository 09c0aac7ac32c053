// Package bugreports tries what administrators reported in public, of this kind of product and of its neighbors: one table, a row for each
// case, with the link of the report, the input in words and the expected outcome. A new report becomes a row first.
package bugreports
