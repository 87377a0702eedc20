# Coefficients of PrivateLR's dplr and of DPpack's LogisticRegressionDP for one table.
#   Rscript peers_in_r.R FOLDER NORM GAMMA EPS...
# FOLDER has rows.csv, a column y of 0 and 1 last, and bounds.csv, a line for each other column.
# Written there are privatelr.csv and dppack.csv, a line for each eps, the intercept first.
given <- commandArgs(trailingOnly = TRUE)
folder <- given[1]
norm <- as.numeric(given[2])
gamma <- as.numeric(given[3])
prices <- as.numeric(given[-(1:3)])
rows <- read.csv(file.path(folder, "rows.csv"))
bounds <- read.csv(file.path(folder, "bounds.csv"))
y <- rows$y
x <- rows[names(rows) != "y"]
in_the_ball <- data.frame(x / norm, y = y)

with_privatelr <- function(eps) {
  PrivateLR::dplr(y ~ ., in_the_ball, eps = eps)$coefficients
}

with_dppack <- function(eps) {
  model <- DPpack::LogisticRegressionDP$new("l2", eps, gamma)
  # Its objective takes a variable that its methods never set, and would find R's function gamma.
  assign("gamma", gamma, envir = model$.__enclos_env__)
  model$fit(x, y, bounds$upper, bounds$lower, add.bias = TRUE)
  model$coeff
}

answer <- function(name, fit) {
  found <- t(vapply(prices, fit, numeric(ncol(x) + 1)))
  path <- file.path(folder, name)
  write.table(format(found, digits = 17), path, sep = ",", quote = FALSE, row.names = FALSE, col.names = FALSE)
}

answer("privatelr.csv", with_privatelr)
answer("dppack.csv", with_dppack)
