# Numbers of R's ns() for tests/test_natural_splines.py:  Rscript splines.R > splines.txt
library(splines)
x <- c(18, 20, 21.5, 35, 47.25, 50, 64, 79, 80, 85, 90)
show <- function(call, basis) {
  cat("#", call, "\n")
  write.table(format(basis, digits = 17), quote = FALSE, row.names = FALSE, col.names = FALSE)
}
show("x", matrix(x))
for (call in c(
  "ns(x, Boundary.knots = c(20, 80))",
  "ns(x, knots = c(50), Boundary.knots = c(18, 90))",
  "ns(x, knots = c(35, 50, 65), Boundary.knots = c(20, 80))",
  "ns(x, knots = c(35, 50, 65), Boundary.knots = c(20, 80), intercept = TRUE)",
  "ns(x, knots = c(30, 31, 32, 70), Boundary.knots = c(0, 100))",
  "bs(x, knots = c(35, 50), Boundary.knots = c(20, 80))"
)) {
  basis <- suppressWarnings(eval(parse(text = call)))
  show(call, matrix(basis, nrow = length(x)))
}
