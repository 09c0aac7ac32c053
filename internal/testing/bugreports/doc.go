// Package bugreports tests cases that users reported publicly about this kind of product and related ones. One table has a row for each case,
// with the link of the report, the input in words and the expected outcome. A new report becomes a row first.
package bugreports
