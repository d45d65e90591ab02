//! The set-up of a host: the LU that all paths must lead to, and its survey over one of them once all
//! paths are surveyed.
use hakaru_contract::ConfigError;
use hakaru_iscsi_session::{Done, LuFacts, Survey, SurveyError, Task};

use super::survey::{PathFacts, SURVEY_TAG};

/// Progress of the survey of the LU.
#[derive(Debug)]
pub enum Progress {
    /// The next task, for the same leg.
    Next(Task),
    /// The survey has ended.
    Facts(LuFacts),
}

/// The LU of a host, until it is surveyed.
#[derive(Debug)]
pub struct Setup {
    lun: u8,
    /// Names of the LU, of the first path surveyed.
    identity: Option<Vec<Vec<u8>>>,
    /// Survey of the LU, and the leg that carries it out.
    survey: Option<(usize, Survey)>,
}

impl Setup {
    /// Creates the set-up of a host with this LU.
    pub fn new(lun: u8) -> Setup {
        Setup {
            lun,
            identity: None,
            survey: None,
        }
    }

    /// Returns the number of the LU.
    pub fn lun(&self) -> u8 {
        self.lun
    }

    /// Compares the LU behind a path with that of the first one, also when a path returns.
    ///
    /// # Errors
    /// The path leads to another LU.
    pub fn check_identity(&mut self, facts: &PathFacts, portal: &str) -> Result<(), ConfigError> {
        let identity = self.identity.get_or_insert_with(|| facts.identity.clone());
        if *identity == facts.identity {
            return Ok(());
        }
        Err(ConfigError {
            field: "destination.other_portals".to_owned(),
            problem: format!("{portal} leads to another LU than the first portal"),
            hint: "name portals of one target, and a LUN that is the same behind each".into(),
        })
    }

    /// Returns whether the survey is in progress.
    pub fn is_underway(&self) -> bool {
        self.survey.is_some()
    }

    /// Begins the survey over a leg, and returns its first task.
    ///
    /// # Errors
    /// No path is usable.
    pub fn begin(&mut self, usable: Option<usize>) -> Result<(usize, Task), ConfigError> {
        let leg = usable.ok_or_else(|| ConfigError {
            field: "destination.other_portals".to_owned(),
            problem: "no port permits access to the LU (ALUA)".to_owned(),
            hint: "set the state of a port of the array to active/optimized".to_owned(),
        })?;
        let survey = Survey::new(self.lun.into());
        let task = task_of(&survey);
        self.survey = Some((leg, survey));
        Ok((leg, task))
    }

    /// Processes an answer over a leg. `None` if the survey is not carried out over it.
    ///
    /// # Errors
    /// The survey failed.
    pub fn handle_done(
        &mut self,
        leg: usize,
        done: &Done,
    ) -> Option<Result<Progress, SurveyError>> {
        let (_, survey) = self.survey.as_mut().filter(|(on, _)| *on == leg)?;
        Some(match survey.handle_done(done) {
            Ok(None) => Ok(Progress::Next(task_of(survey))),
            Ok(Some(facts)) => {
                self.survey = None;
                Ok(Progress::Facts(facts))
            }
            Err(error) => Err(error),
        })
    }
}

fn task_of(survey: &Survey) -> Task {
    Task {
        tag: SURVEY_TAG,
        ..survey.task()
    }
}
